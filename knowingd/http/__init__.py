"""The node as others meet it over HTTP: peers by signed requests, people and scripts by tokens."""
