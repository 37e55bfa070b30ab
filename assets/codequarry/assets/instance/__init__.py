"""What a Dagster instance of a project is made of: the template of `dagster.yaml`, its event log, notifications."""
