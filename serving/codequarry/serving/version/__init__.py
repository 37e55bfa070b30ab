"""Opening and checking of one version of a bundle."""
