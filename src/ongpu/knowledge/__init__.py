"""What the world says: tables with source and date, and typed look-ups; each table is read when first asked for."""
