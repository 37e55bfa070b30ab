"""Parts of a Dagster instance of a project: the template of `dagster.yaml`, its event log, notifications."""
