"""Work that the calendar sets going: reservations, starts ahead of time, and the end."""
