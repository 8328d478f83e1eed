"""Archive of a run: one file with its files, their checksums, its record, and citation metadata.

The layout is BagIt's (RFC 8493) in a zip file: repositories take it, every system opens it, and
`sha256sum` checks it without a program of the portal's. RO-Crate would need its own vocabulary for
what the portal's record says already, and has no checksums.
"""
