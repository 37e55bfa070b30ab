"""Trust: the folders that the user trusts, and the places where state may lie."""
