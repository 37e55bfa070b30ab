"""A fleet: repositories are assigned to bundles, bundles built and put into object storage, generations named."""
