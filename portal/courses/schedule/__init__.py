"""Work driven by the calendar: reservations, starts ahead of time, and the end of courses."""
