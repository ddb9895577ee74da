"""What the viewer shows of a turn instead of raw text: pictures of boards, structured pages, marked entities."""
