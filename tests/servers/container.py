"""Makes a container in Azurite: container.py ENDPOINT ACCOUNT KEY CONTAINER. The standard library is all it needs."""

import base64
import email.utils
import hashlib
import hmac
import sys
import urllib.parse
import urllib.request

endpoint, account, key, container = sys.argv[1:]
version = "2021-12-02"
date = email.utils.formatdate(usegmt=True)
path = urllib.parse.urlparse(endpoint).path
headers = f"x-ms-date:{date}\nx-ms-version:{version}\n"
resource = f"/{account}{path}/{container}\nrestype:container"
signed = "PUT" + "\n" * 12 + headers + resource
digest = hmac.new(base64.b64decode(key), signed.encode(), hashlib.sha256).digest()
request = urllib.request.Request(f"{endpoint}/{container}?restype=container", method="PUT", data=b"")
request.add_header("x-ms-date", date)
request.add_header("x-ms-version", version)
request.add_header("Content-Length", "0")
request.add_header("Authorization", f"SharedKey {account}:{base64.b64encode(digest).decode()}")
request.add_header("Content-Type", "")
print(urllib.request.urlopen(request, timeout=20).status)
