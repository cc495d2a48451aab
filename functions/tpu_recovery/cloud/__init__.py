"""The ports of `recovery` on Google Cloud, one file per service."""
