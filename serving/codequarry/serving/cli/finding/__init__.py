"""Commands that look for code: `search`, `fetch`, `grep`, `definition`, `references`, `outline`, `files` and others."""
