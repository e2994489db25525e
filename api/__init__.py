"""HTTP in, a service port out."""
