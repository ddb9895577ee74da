"""Other people's trainers: each module adapts one, and imports it only when it is used."""
