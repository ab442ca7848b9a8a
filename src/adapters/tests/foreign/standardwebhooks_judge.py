"""The library of Standard Webhooks: `sign SECRET ID BODY` prints headers, `verify SECRET HEADERS BODY` prints `believed`."""
import datetime, json, sys

from standardwebhooks.webhooks import Webhook

do, secret, third, body = sys.argv[1:]
webhook = Webhook(secret)
if do == "sign":
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp = str(int(now.timestamp()))
    print(json.dumps({"webhook-id": third, "webhook-timestamp": stamp, "webhook-signature": webhook.sign(third, now, body)}))
else:
    webhook.verify(body, json.loads(third))
    print("believed")
