"""What the layers know: probes that predict labels from them."""
