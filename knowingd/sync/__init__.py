"""Nodes and the differences between them: identity, invitations, tokens, limits, and what goes over the wire.

Promises that nothing here rests on trust in the peer: whatever a peer sends is bounded before it is read, checked
before it is believed, and refused with a code that names the defect.
Must never: know SQL (`knowingd.store` does), make a hash of the protocol (the kernel does), or load a web framework
for whoever only asks the local graph.
"""
