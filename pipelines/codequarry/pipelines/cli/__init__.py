"""The command line: the root command and those of the pipeline."""
