"""Services on GPUs: who answers which call, and which instances come and go for it."""
