"""Spark over what nodes wrote: a data source, the reconciliation of every delivery, its report."""
