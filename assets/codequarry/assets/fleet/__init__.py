"""A fleet of bundles in Dagster: one partition per bundle, and the generation that names them."""
