"""Text processing: analysis, stems, queries, patterns and typos."""
