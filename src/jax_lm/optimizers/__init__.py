"""From a configuration to what turns gradients into updates."""
