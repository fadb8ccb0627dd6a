"""What brings models up on devices, lets them sleep, and asks them."""
