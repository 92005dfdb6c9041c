// A library under one of CANN's names holds nothing itself: what it needs answers.
