"""Parts of a project's Dagster instance: the template of `dagster.yaml`, its event log, notifications."""
