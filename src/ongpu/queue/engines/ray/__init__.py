"""Jobs run by a Ray cluster, through its Jobs API over plain HTTP: nothing of Ray is installed or imported here."""
