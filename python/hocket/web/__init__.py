"""``hocket web``: one node's coordinator over HTTP, on 127.0.0.1: a page, ``/api`` and Prometheus' ``/metrics``.

    browser, Prometheus  ->  door.py      sockets: so many, so long, so large; one request each
                         ->  rules.py     who may ask what: user, Host, Origin, method, token
                         ->  routes.py    which answer: the page, /metrics, /api
                         ->  node.py      asks the coordinator, at most four times a second whoever asks here
                              counts.py   counters that only grow, also when the coordinator starts anew
                              metrics.py  what Prometheus is told

It is a process of its own (docs/decisions/0013-web-apart.md): whatever speaks HTTP meets this one and not hocketd.
Nothing here imports torch.
"""
