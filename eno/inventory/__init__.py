"""What a Ready synthesis owned, kept as immutable Secrets in the downstream cluster.

`entries` says what is remembered and cuts it into chunks, `secrets` how a chunk is stored and read back,
`selection` which stored snapshot a recovery may trust. Rules: specification 04.
"""
