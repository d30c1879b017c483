"""Graphs from files: edge lists with tables of nodes, GraphML and GML, sparse matrices, folders of many graphs."""
