import os

from gen import Client
from gen.api.payments import get_transaction, send_payment
from gen.models import SendPaymentRequest

client = Client(base_url=os.environ["REMIT_URL"], headers={"x-api-key": os.environ["REMIT_API_KEY"]})
body = SendPaymentRequest(amount="5000000000", to="0x2222222222222222222222222222222222222222")
paid = send_payment.sync(client=client, body=body, idempotency_key="openapi-python-client")
print(paid.amount_text, get_transaction.sync(paid.tx_hash, client=client).amount_text)
