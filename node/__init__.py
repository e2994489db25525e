"""One Hourwheel process: config, clock, service, dispatcher, delivery, metrics."""
