"""The parts of the face of the engine that are each for one kind of neighbour."""
