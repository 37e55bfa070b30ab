"""Reading by path: files, ranges of lines, outlines, lists of files, the overview of a repository."""
