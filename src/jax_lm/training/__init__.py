"""From a configuration to a trained model."""
