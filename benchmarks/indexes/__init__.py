"""Single indexes beside exact search and beside their rivals: dense, late interaction, learned sparse."""
