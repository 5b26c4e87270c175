"""The IMS bridge; `mayfly.ims_bridge` has the public names."""
