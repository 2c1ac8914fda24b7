//! Orders commands: batches them into log entries, makes them durable, applies them. May not look into a command.
