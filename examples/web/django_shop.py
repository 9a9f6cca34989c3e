"""Django under gunicorn, with and without ``--preload``: a producer for each worker process.

Run it, where nsq-anyio is installed, with::

    pip install django gunicorn
    NSQD=127.0.0.1:4150 gunicorn --preload --workers 2 --threads 4 django_shop:application

A project has these parts in files of their own: the settings, ``urls.py`` and ``wsgi.py``, and the producer
in a module of an application.
"""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST

import nsq_anyio as nsq

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"])

# It opens when a worker first publishes, so after the fork. All threads of the worker share it, and it is
# closed when the worker exits. In a transaction, publish in `transaction.on_commit`: a message cannot be
# rolled back.
producer = nsq.sync.produce(nsqd=os.environ["NSQD"])


@require_POST
def order(_: HttpRequest, number: int) -> HttpResponse:
    """Accept an order: nsqd has it when the answer is sent."""
    producer.publish("orders", b"%d" % number)
    return HttpResponse(status=202)


urlpatterns = [path("orders/<int:number>", order)]
application = get_wsgi_application()
