# Python torch paths
