"""Requests and answers of the tools."""
