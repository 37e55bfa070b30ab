"""Reading the files of repositories: history, census, snapshot."""
