"""Commands that carry versions between machines: archives, and object storage."""
