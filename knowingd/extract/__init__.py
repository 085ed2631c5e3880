"""From files to records: one module a language behind `interface`, and a driver in memory."""
