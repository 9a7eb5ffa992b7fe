"""Running servers over HTTP: requests, the APIs they speak, and the law of plain decoding as they show it."""
