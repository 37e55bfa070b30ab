"""Cost of an agent's questions in tokens, beside grep and reading files."""
