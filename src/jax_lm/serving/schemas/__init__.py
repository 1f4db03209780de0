"""JSON schemas: one declaration checks what comes in and documents it."""
