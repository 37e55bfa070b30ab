"""What an agent's questions cost in tokens, beside grep and reading files."""
