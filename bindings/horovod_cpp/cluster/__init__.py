"""Functions and cells on ranks: hvd.run, hvd.Cluster and %%hvd."""
