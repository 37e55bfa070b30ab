"""Set up the Dagster instance of a project: the template of `dagster.yaml`, and the event log it names."""
