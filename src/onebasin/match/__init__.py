"""Finding alignments without training: from weights, or from activations on unlabelled inputs."""
