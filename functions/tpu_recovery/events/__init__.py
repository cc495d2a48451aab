"""From what arrives (Pub/Sub messages holding log entries, reports and commands) to facts about a job."""
